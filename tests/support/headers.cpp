// Nothing of its own: the headers that test programs read precompiled belong to this file's target.
