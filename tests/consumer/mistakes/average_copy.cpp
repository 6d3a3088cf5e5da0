// says: deleted
#include <tandem/optim/ema.h>
void wrong(tandem::optim::ExponentialMovingAverage& average) { auto mine = average; }
