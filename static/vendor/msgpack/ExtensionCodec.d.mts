export { ExtensionCodec } from "@msgpack/msgpack";
