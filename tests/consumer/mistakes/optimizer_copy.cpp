// says: deleted
#include <tandem/tandem.h>
void wrong(tandem::optim::SGD& optimizer) { auto mine = optimizer; }
