// A character transformer in the style of GPT-2 (Radford et al., "Language Models are Unsupervised Multitask Learners",
// 2019). It learns sonnets and then writes some lines.
//
//   char_transformer                       trains on sonnets.txt in this folder
//   char_transformer text FILE             trains on another text
//   char_transformer file X.safetensors    prints losses for the weights and batches in a file
//
// The file stores the batches in the array `tokens` (steps, N, length + 1).
#include <tandem/core/io/safetensors.h>
#include <tandem/tandem.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>

using namespace tandem;

constexpr std::int64_t width = 64, heads = 4, context = 64;

struct Attention : nn::Module {
  nn::Linear& qkv = add("qkv", nn::Linear(width, 3 * width));
  nn::Linear& proj = add("proj", nn::Linear(width, width));

  // (N, L, width) -> (N, L, width). Each position attends to itself and to the positions before it.
  Tensor forward(const Tensor& x) override {
    const std::int64_t n = x.dim(0), length = x.dim(1);
    // (N, L, 3, heads, size) -> 3 x (N, heads, L, size)
    const auto parts = unbind(permute(reshape(qkv(x), {n, length, 3, heads, width / heads}), {2, 0, 3, 1, 4}), 0);
    const Tensor y = scaled_dot_product_attention(parts[0], parts[1], parts[2], {.is_causal = true});
    return proj(reshape(transpose(y, 1, 2), {n, length, width}));
  }
};

struct Block : nn::Module {
  nn::LayerNorm& ln1 = add("ln1", nn::LayerNorm(width));
  Attention& attention = add("attention", Attention());
  nn::LayerNorm& ln2 = add("ln2", nn::LayerNorm(width));
  nn::Linear& grow = add("grow", nn::Linear(width, 4 * width));
  nn::Linear& shrink = add("shrink", nn::Linear(4 * width, width));

  Tensor forward(const Tensor& x) override {
    const Tensor y = x + attention(ln1(x));
    return y + shrink(gelu(grow(ln2(y))));
  }
};

struct CharTransformer : nn::Module {
  nn::Embedding& token;
  nn::Embedding& position;
  nn::Sequential& blocks = add("blocks", nn::Sequential{Block(), Block()});
  nn::LayerNorm& norm = add("norm", nn::LayerNorm(width));
  nn::Linear& head;

  explicit CharTransformer(std::int64_t characters)
      : token(add("token", nn::Embedding(characters, width))),
        position(add("position", nn::Embedding(context, width))),
        head(add("head", nn::Linear(width, characters))) {}

  // tokens (N, L) i64 -> logits of the next character (N, L, characters)
  Tensor forward(const Tensor& tokens) override {
    const Tensor x = token(tokens) + position(arange(tokens.dim(1)));
    return head(norm(blocks(x)));
  }
};

struct Trainer {
  CharTransformer model;
  optim::AdamW optimizer;
  explicit Trainer(std::int64_t characters) : model(characters), optimizer(model.parameters(), {.lr = 3e-3}) {}

  // Trains one step on tokens (N, L + 1) and returns the loss. Each of the first L tokens predicts the next one.
  double step(const Array& tokens) {
    const std::int64_t length = tokens.dim(1) - 1;
    const Tensor logits = model(tokens.slice(1, 0, length));
    const Tensor loss = cross_entropy(flatten(logits, 0, 1), tokens.slice(1, 1, length + 1).contiguous().reshape({-1}));
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    return loss.item();
  }
};

// A text: the characters that occur in it, and the index of each of its characters.
struct Text {
  std::string characters;
  std::vector<std::int64_t> tokens;

  explicit Text(const std::string& path) {
    std::ifstream file(path);
    TANDEM_CHECK(file, "cannot read ", path, "; run this program in the folder that contains it, or give another text");
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    TANDEM_CHECK(text.size() > context + 1, path, " holds ", text.size(), " characters, expected more than ",
                 context + 1);
    characters = text;
    std::sort(characters.begin(), characters.end());
    characters.erase(std::unique(characters.begin(), characters.end()), characters.end());
    for (const char c : text) tokens.push_back(static_cast<std::int64_t>(characters.find(c)));
  }
  // Returns pieces (count, context + 1) of the text from random positions.
  Array pieces(std::int64_t count, Generator& generator) const {
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto begin = tokens.begin() + generator.next_u32() % (tokens.size() - context);
      all.insert(all.end(), begin, begin + context + 1);
    }
    return Array::from(all, {count, context + 1});
  }
};

// Continues `tokens` by `count` characters, each drawn with the model's probabilities.
std::string write_on(CharTransformer& model, const Text& text, std::vector<std::int64_t> tokens, int count,
                     Generator& generator) {
  const NoGrad no_grad;
  std::string written;
  for (int i = 0; i < count; ++i) {
    const auto length = std::min<std::int64_t>(context, static_cast<std::int64_t>(tokens.size()));
    const std::vector<std::int64_t> last(tokens.end() - length, tokens.end());
    const Tensor logits = model(Array::from(last, {1, length}));
    const Tensor chances = softmax(logits[0][-1] / 0.8, 0);
    tokens.push_back(static_cast<std::int64_t>(multinomial(chances, 1, false, generator).item()));
    written += text.characters[static_cast<std::size_t>(tokens.back())];
  }
  return written;
}

void train_on_text(const std::string& path, int steps) {
  const Text text(path);
  Trainer trainer(static_cast<std::int64_t>(text.characters.size()));
  std::cout << text.tokens.size() << " characters, " << text.characters.size() << " different ones\n";
  Generator generator(0);
  double loss = 0;
  for (int step = 1; step <= steps; ++step) {
    loss = trainer.step(text.pieces(8, generator));
    if (step % 50 == 0) std::cout << "step " << step << ": loss " << loss << std::endl;
  }
  std::cout << write_on(trainer.model, text, {text.tokens.front()}, 300, generator) << '\n';
  TANDEM_CHECK(loss < 2.6, "the model did not learn: its loss is ", loss);
}

void train_on_file(const std::string& path) {
  Array tokens;
  std::vector<NamedArray> weights;
  std::int64_t characters = 0;
  for (auto& [name, array] : read_safetensors(path).arrays) {
    if (name == "tokens") tokens = array;
    else weights.push_back({name, array});
    if (name == "token.weight") characters = array.dim(0);
  }
  Trainer trainer(characters);
  trainer.model.load_state_dict(weights);
  std::cout.precision(9);
  for (std::int64_t i = 0; i < tokens.dim(0); ++i) std::cout << trainer.step(tokens.select(0, i)) << '\n';
}

int main(int argc, char** argv) {
  return distributed::run_program(argc, argv, {"char_transformer", "[text FILE | file X.safetensors]", 2}, [&] {
    manual_seed(0);
    const std::string what = argc == 3 ? argv[1] : "";
    if (what == "text") train_on_text(argv[2], 2000);
    else if (what == "file") train_on_file(argv[2]);
    else if (argc == 1) train_on_text("sonnets.txt", 150);
    else throw distributed::UsageError("expected no arguments, \"text FILE\" or \"file X.safetensors\"");
  });
}
