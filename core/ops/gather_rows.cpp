#include <tandem/core/backend/backend.h>
#include <tandem/core/backend/index_fault.h>
#include <tandem/core/ops/gather_into.h>
#include <tandem/core/ops/gather_rows.h>

#include <algorithm>
#include <utility>

namespace tandem::ops {

namespace {

thread_local std::vector<Array> places;  // of the innermost GatherInto

void check_gather(const Array& rows, const Array& index) {
  TANDEM_CHECK(rows.ndim() >= 1, "gather_rows: needs rows (R, ...), got a scalar");
  TANDEM_CHECK(index.ndim() == 1 && index.dtype() == DType::i64, "gather_rows: index must be (N) i64, got ",
               index.shape(), ' ', index.dtype());
  TANDEM_CHECK(rows.device() == index.device(), "gather_rows: rows are on ", rows.device(), ", index is on ",
               index.device());
}

bool has_dense_images(const Array& rows) { return rows.is_channels_last() && !rows.is_contiguous(); }

Array empty_rows(const Array& like, std::int64_t count, DType dtype) {
  Shape shape = like.shape();
  shape[0] = count;
  const auto fits = [&](const Array& place) {
    return place.shape() == shape && place.dtype() == dtype && place.device() == like.device() &&
           (has_dense_images(like) ? place.is_channels_last() : place.is_contiguous());
  };
  if (const auto place = std::ranges::find_if(places, fits); place != places.end()) {
    const Array found = *place;
    places.erase(place);
    found.storage()->written_by("gather_rows");
    return found;
  }
  return has_dense_images(like) ? Array::empty_channels_last(shape, dtype, like.device())
                                : Array::empty(shape, dtype, like.device());
}

// Gathers rows. f(dense rows, dense index, out) calls the back-end.
template <class F>
Array gather_with(const Array& rows, const Array& index, DType dtype, F f) {
  check_gather(rows, index);
  Array out = empty_rows(rows, index.dim(0), dtype);
  if (out.numel() == 0) return out;
  const auto bad = f(has_dense_images(rows) ? rows : rows.contiguous(), index.contiguous(), out);
  if (bad >= 0)
    fail(IndexFault{"gather_rows", IndexFault::Kind::row, bad, static_cast<std::int64_t>(index.select(0, bad).item()),
                    rows.dim(0)});
  return out;
}

}  // namespace

GatherInto::GatherInto(std::vector<Array> given) : places_(places, std::move(given)) {}

Array gather_rows(const Array& rows, const Array& index) {
  return gather_with(rows, index, rows.dtype(), [](const Array& dense, const Array& wanted, const Array& out) {
    return backend(dense.device()).gather_rows(dense, wanted, out);
  });
}

Array gather_normalized(const Array& rows, const Array& index, float mean, float std) {
  TANDEM_CHECK(rows.dtype() == DType::u8, "gather_normalized: needs rows of u8, got ", rows.dtype());
  TANDEM_CHECK(std > 0, "gather_normalized: std must be above 0, got ", std);
  return gather_with(rows, index, DType::f32, [&](const Array& dense, const Array& wanted, const Array& out) {
    return backend(dense.device()).gather_normalized(dense, wanted, mean, std, out);
  });
}

}  // namespace tandem::ops
