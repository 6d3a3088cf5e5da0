// The memory of arrays: its owner, and the operation that wrote to it last.
#include <tandem/core/array/array.h>
#include <tandem/core/ops.h>

#include <gtest/gtest.h>

#include <memory>

#include "support/temporary_folder.h"

namespace tandem {
namespace {

using Floats = std::vector<float>;

TEST(Storage, CountsInPlaceWritesAndNamesTheLast) {
  Array a = ops::zeros({4});
  const auto before = a.storage()->version();
  a.fill(1);
  EXPECT_EQ(a.storage()->version(), before + 1);
  EXPECT_STREQ(a.storage()->last_writer(), "fill");
  Array view = a.slice(0, 1, 2);
  ops::add_(view, ops::scalar(1));
  EXPECT_EQ(a.storage()->version(), before + 2);
  EXPECT_STREQ(a.storage()->last_writer(), "add_");
  ops::scale_(a, 2);
  a.copy_from(a.clone());
  EXPECT_EQ(a.storage()->version(), before + 4);
  const auto unread = a.storage()->version();
  ops::map(functors::Relu{}, a);
  a.to_vector<float>();
  EXPECT_EQ(a.storage()->version(), unread);
}

TEST(Storage, SlicesShareMemoryAndCountForThemselves) {
  const auto block = std::make_shared<Storage>(64, Device{});
  Array a(storage_slice(block, 0, 32), {8}, {1}, 0, DType::f32),
      b(storage_slice(block, 32, 32), {8}, {1}, 0, DType::f32);
  a.fill(1);
  b.fill(2);
  b.fill(3);
  EXPECT_EQ(a.storage()->version(), 1u);
  EXPECT_EQ(b.storage()->version(), 2u);
  const Array whole(block, {16}, {1}, 0, DType::f32);
  EXPECT_EQ(whole.to_vector<float>(), (Floats{1, 1, 1, 1, 1, 1, 1, 1, 3, 3, 3, 3, 3, 3, 3, 3}));
  EXPECT_ERROR(storage_slice(block, 32, 33), "32", "33", "64");
  EXPECT_ERROR(storage_slice(block, static_cast<std::size_t>(-8), 16), "64");
}

TEST(Storage, SlicesKeepTheirParentAlive) {
  std::weak_ptr<Storage> watch;
  Array a;
  {
    const auto block = std::make_shared<Storage>(64, Device{});
    watch = block;
    a = Array(storage_slice(block, 0, 64), {16}, {1}, 0, DType::f32);
  }
  EXPECT_FALSE(watch.expired());
  a = Array();
  EXPECT_TRUE(watch.expired());
}

TEST(Storage, ReleasesWhatSomebodyElseOwns) {
  Floats owner{1, 2, 3};
  int released = 0;
  {
    const Array a(std::make_shared<Storage>(owner.data(), 12, Device{}, [&] { ++released; }), {3}, {1}, 0, DType::f32);
    const Array view = a.slice(0, 1, 3);
    EXPECT_EQ(view.to_vector<float>(), (Floats{2, 3}));
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
}

}  // namespace
}  // namespace tandem
