// Checks which options of training programs require or exclude each other.
#pragma once

#include <tandem/distributed/training/options/training_options.h>

namespace tandem::distributed {

// Throws a UsageError that says what to do if the user's options are incompatible.
void check_together(const TrainingOptions& options);

}  // namespace tandem::distributed
