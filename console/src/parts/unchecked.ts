/** Stands in for the validator of rjsf: the server says what is wrong with values, in the words of the tool. */
export default {};
