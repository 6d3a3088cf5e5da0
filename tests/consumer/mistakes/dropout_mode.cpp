// says: deleted
#include <tandem/tandem.h>
tandem::Tensor wrong(const tandem::Tensor& x, bool training) { return tandem::dropout(x, training); }
