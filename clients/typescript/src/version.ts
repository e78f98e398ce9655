/** The version of this package; a test holds it to Headway's own. */
export const VERSION = "0.1.0";
