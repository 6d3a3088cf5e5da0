// Says how a loss combines its values, one for each element or row.
#pragma once

namespace tandem {

enum class LossReduction { mean, sum, none };

}  // namespace tandem
