declare module "kernel:" {
  const bytes: Uint8Array<ArrayBuffer>;
  export default bytes;
}
