// Conversions, an element a thread.

FA_KERNEL(32, 1)
void narrow(fa::Buffer<double, 1> x, fa::Buffer<fa::bf16, 1> b,
            fa::Buffer<fa::f16, 1> h, fa::Buffer<int, 1> i) {
  if (fa::thread_id() >= x.size[0])
    return;
  double v = fa::load_global(x.data + fa::thread_id());
  fa::store_global(b.data + fa::thread_id(), fa::convert<fa::bf16>(v));
  fa::store_global(h.data + fa::thread_id(), fa::convert<fa::f16>(v));
  fa::store_global(i.data + fa::thread_id(), fa::convert<int>(v));
}
