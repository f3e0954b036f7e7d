/** The catch-all keeps this many messages per project and deletes older ones. */
export const maxCaughtMessages = 200
