#include <tandem/optim/adam.h>
#include <tandem/optim/sgd.h>

#include <support/make_optimizer.h>
#ifndef TANDEM_WITHOUT_ANNEXES
#include <tandem/optim/adagrad.h>
#include <tandem/optim/rmsprop.h>
#endif

#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

namespace tandem::testing {

namespace {

template <class O, class Options>
std::unique_ptr<optim::Optimizer> make_optimizer(std::vector<NamedTensor> parameters, const nlohmann::json& json) {
  Options options;
  Options::visit(options, [&](const char* name, auto& option) {
    if (json.contains(name)) option = json.at(name).get<std::decay_t<decltype(option)>>();
  });
  return std::make_unique<O>(std::move(parameters), options);
}

}  // namespace

std::unique_ptr<optim::Optimizer> make_optimizer(const std::string& kind, std::vector<NamedTensor> parameters,
                                                 const nlohmann::json& options) {
  if (kind == "SGD") return make_optimizer<optim::SGD, optim::SGDOptions>(std::move(parameters), options);
  if (kind == "Adam") return make_optimizer<optim::Adam, optim::AdamOptions>(std::move(parameters), options);
  if (kind == "AdamW") return make_optimizer<optim::AdamW, optim::AdamWOptions>(std::move(parameters), options);
#ifdef TANDEM_WITHOUT_ANNEXES
  if (kind == "RMSprop" || kind == "Adagrad") return nullptr;
#else
  if (kind == "RMSprop") return make_optimizer<optim::RMSprop, optim::RMSpropOptions>(std::move(parameters), options);
  if (kind == "Adagrad") return make_optimizer<optim::Adagrad, optim::AdagradOptions>(std::move(parameters), options);
#endif
  detail::fail("no optimizer ", kind);
}

}  // namespace tandem::testing
