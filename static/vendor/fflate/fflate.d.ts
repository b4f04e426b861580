export * from "fflate";
