// says: x.slice(...).fill(value)
#include <tandem/tandem.h>
void wrong(const tandem::Array& x) { x.select(0, 1) = 3.5; }
