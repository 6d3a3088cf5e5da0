// says: nothing
#include <tandem/tandem.h>
void right(tandem::Tensor x, tandem::Array a, const tandem::Tensor& row) {
  x[0] += row;
  a = a.slice(0, 0, 1);
  x = x[0];
  a.select(0, 0).copy_from(row.value());
  std::vector<tandem::Tensor> list{x};
  list[0] = row;
  x = tandem::softmax(tandem::dropout(x, 0), 1) + tandem::dropout(x, 0.5, true);
}
