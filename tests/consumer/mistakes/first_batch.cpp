// says: cannot bind
#include <tandem/tandem.h>
void wrong(tandem::data::Loader& loader) { auto& [x, y] = *loader.begin(); }
