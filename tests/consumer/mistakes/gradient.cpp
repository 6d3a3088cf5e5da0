// says: x.slice(...).copy_from(y)
#include <tandem/tandem.h>
void wrong(const tandem::Tensor& w, const tandem::Array& g) { w.grad() = g; }
