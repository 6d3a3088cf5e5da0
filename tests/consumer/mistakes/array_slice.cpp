// says: x.slice(...).copy_from(y)
#include <tandem/tandem.h>
void wrong(const tandem::Array& x, const tandem::Array& row) { x.slice(0, 0, 1) = row; }
