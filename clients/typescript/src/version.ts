/** The version of this package; a test holds it to Headway's own. */
export const VERSION = "0.2.0";
