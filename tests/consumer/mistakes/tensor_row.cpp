// says: copy_(x[0], y)
#include <tandem/tandem.h>
void wrong(tandem::Tensor x, const tandem::Tensor& row) { x[0] = row; }
