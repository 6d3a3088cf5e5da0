// says: deleted
#include <tandem/tandem.h>
tandem::Tensor wrong(const tandem::Tensor& x) { return tandem::softmax(x, 0.7); }
