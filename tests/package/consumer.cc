#include <starling/settings.h>

#include <cstdio>

int main() { std::puts(starling::write_settings({}).c_str()); }
