/** View 5: two runs, or two steps of one, side by side; paths matched by kind, on common scales, with linked steps. */
export function Compare() {
  return null; // being written on the branch `engine`, as view 6 (census) is; see its log
}
