// says: deleted
#include <tandem/data/combine.h>
void wrong(const tandem::data::Dataset& images) {
  tandem::data::Subset few(tandem::data::random_split(images, {0.8, 0.2})[0], {0, 1});
}
