// says: deleted
#include <tandem/optim/lr_scheduler.h>
void wrong(tandem::optim::LrScheduler& schedule) { auto mine = schedule; }
