// Blocks take turns in their order: value = 3 value + block, modulo 2^32.

FA_KERNEL(64, 1)
void ordered(int *ticket, int *value) {
  if (fa::thread_id() == 0)
    while (fa::load_acquire(ticket) != int(fa::block_id()))
      fa::nanosleep_hint();
  fa::barrier();
  if (fa::thread_id() == 63)
    fa::store_global(value, fa::addi(fa::muli(fa::load_global(value), 3),
                                     int(fa::block_id())));
  fa::barrier();
#ifdef FAULT_NOT_RELEASED
  if (fa::block_id() == 2)
    return;
#endif
  if (fa::thread_id() == 0)
    fa::store_release(ticket, int(fa::block_id()) + 1);
}
