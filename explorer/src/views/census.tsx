/** View 6: kinds of path by runs; a cell opens its run. */
export function Census() {
  return null; // being written on the branch `engine`; see its log
}
