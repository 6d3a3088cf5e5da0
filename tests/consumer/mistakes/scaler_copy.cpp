// says: deleted
#include <tandem/optim/grad_scaler.h>
void wrong(tandem::optim::GradScaler& scaler) { auto mine = scaler; }
