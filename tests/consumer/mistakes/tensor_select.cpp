// says: copy_(x[0], y)
#include <tandem/tandem.h>
void wrong(tandem::Tensor x, tandem::Tensor v) { tandem::select(x, 1, 0) = std::move(v); }
