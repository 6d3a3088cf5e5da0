// The kinds of cells of recurrent layers. core/formulas/recurrent.h has their formulas.
#pragma once

namespace tandem {

enum class RecurrentCell { tanh, relu, lstm, gru };

}  // namespace tandem
