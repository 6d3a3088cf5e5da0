// Which options of training programs need each other, and which exclude each other.
#pragma once

#include <tandem/distributed/training/options/training_options.h>

namespace tandem::distributed {

// UsageError, with what to do, when the options that the user has given do not go together.
void check_together(const TrainingOptions& options);

}  // namespace tandem::distributed
