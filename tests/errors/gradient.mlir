// Operands and results of the gradient.
// RUN: fa-opt %s --split-input-file --verify-diagnostics

!t = tensor<?x?x?x8xf32>
!l = tensor<?x?x?xf32>
func.func @missing(%t: !t, %l: !l) {
  // expected-error@+1 {{expected (q, k, v, o, lse, do) or (q, k, v, o, lse, do, dlse), got 5 operands}}
  %dq, %dk, %dv = fa.attention_grad (%t, %t, %t, %t, %l) layout(bhsd) group(1)
    : (!t, !t, !t, !t, !l) -> (!t, !t, !t)
  return
}

// -----

!t = tensor<?x?x?x8xf32>
!l = tensor<?x?x?xf32>
func.func @type(%t: !t, %l: !l, %do: tensor<?x?x?x8xf64>) {
  // expected-error@+1 {{expected 'do' of the type of 'o', 'tensor<?x?x?x8xf32>', got 'tensor<?x?x?x8xf64>'}}
  %dq, %dk, %dv = fa.attention_grad (%t, %t, %t, %t, %l, %do) layout(bhsd) group(1)
    : (!t, !t, !t, !t, !l, tensor<?x?x?x8xf64>) -> (!t, !t, !t)
  return
}

// -----

!t = tensor<?x?x?x8xf32>
!l = tensor<?x?x?xf32>
func.func @dlse(%t: !t, %l: !l, %dl: tensor<?x?xf32>) {
  // expected-error@+1 {{expected 'dlse' of the type of 'lse', 'tensor<?x?x?xf32>', got 'tensor<?x?xf32>'}}
  %dq, %dk, %dv = fa.attention_grad (%t, %t, %t, %t, %l, %t, %dl) layout(bhsd) group(1)
    : (!t, !t, !t, !t, !l, !t, tensor<?x?xf32>) -> (!t, !t, !t)
  return
}

// -----

!t = tensor<?x?x?x8xf32>
!l = tensor<?x?x?xf32>
func.func @results(%t: !t, %l: !l, %n: tensor<?xi32>) {
  // expected-error@+1 {{expected one result per entry of grad_captures, 1, got 0}}
  %dq, %dk, %dv = fa.attention_grad (%t, %t, %t, %t, %l, %t) layout(bhsd) group(1)
    captures(%n = %n : tensor<?xi32>) grad_captures(0)
    : (!t, !t, !t, !t, !l, !t) -> (!t, !t, !t)
  return
}

// -----

!t = tensor<?x?x?x8xf32>
!l = tensor<?x?x?xf32>
func.func @whole(%t: !t, %l: !l, %n: tensor<?xi32>) {
  // expected-error@+1 {{expected grad_captures to be indexes of captured floats, got 0}}
  %dq, %dk, %dv, %dn = fa.attention_grad (%t, %t, %t, %t, %l, %t) layout(bhsd) group(1)
    captures(%n = %n : tensor<?xi32>) grad_captures(0)
    : (!t, !t, !t, !t, !l, !t) -> (!t, !t, !t, tensor<?xi32>)
  return
}

// -----

!t = tensor<?x?x?x8xf32>
!l = tensor<?x?x?xf32>
func.func @which(%t: !t, %l: !l, %n: tensor<?xf32>) {
  // expected-error@+1 {{expected grad_captures to be indexes of captured floats, got -1}}
  %dq, %dk, %dv, %dn = fa.attention_grad (%t, %t, %t, %t, %l, %t) layout(bhsd) group(1)
    captures(%n = %n : tensor<?xf32>) grad_captures(-1)
    : (!t, !t, !t, !t, !l, !t) -> (!t, !t, !t, tensor<?xf32>)
  return
}

// -----

!t = tensor<?x?x?x8xf32>
!l = tensor<?x?x?xf32>
func.func @dq(%t: !t, %l: !l) {
  // expected-error@+1 {{expected dq, dk, dv of the types of q, k, v}}
  %dq, %dk, %dv = fa.attention_grad (%t, %t, %t, %t, %l, %t) layout(bhsd) group(1)
    : (!t, !t, !t, !t, !l, !t) -> (!t, !t, !l)
  return
}
