export { Decoder } from "@msgpack/msgpack";
