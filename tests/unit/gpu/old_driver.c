/* libcuda.so.1 of a driver that is older than any toolkit twohop can be built with: the CUDA runtime asks no more of
 * it. */
int cuInit(unsigned flags);
int cuDriverGetVersion(int* version);

int cuInit(unsigned flags) {
  (void)flags;
  return 0;
}
int cuDriverGetVersion(int* version) {
  *version = 11020;
  return 0;
}
