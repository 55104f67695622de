// Stands for an OpenBLAS that does not know its processor: loaded instead of the real one by tests.
extern "C" const char* openblas_get_corename() { return "Prescott"; }
