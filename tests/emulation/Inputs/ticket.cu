// Blocks take turns in their order: value = 3 value + block, modulo 2^32.

FA_KERNEL(64, 1)
void ordered(int *ticket, int *value) {
#ifndef FAULT_NO_TURN
  if (fa::thread_id() == 0)
    while (fa::load_acquire(ticket) != int(fa::block_id()))
      fa::nanosleep_hint();
#endif
  fa::barrier();
#ifdef FAULT_TWO_WRITERS
  if (fa::thread_id() >= 62)
#else
  if (fa::thread_id() == 63)
#endif
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
