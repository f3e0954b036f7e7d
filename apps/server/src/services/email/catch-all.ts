/** Messages of a project that the local catch-all keeps. */
export const keptMessages = 200
