// The kinds of cells that recurrent layers have. core/formulas/recurrent.h says what each computes.
#pragma once

namespace tandem {

enum class RecurrentCell { tanh, relu, lstm, gru };

}  // namespace tandem
