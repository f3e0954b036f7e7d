// Comments of generated scripts.

/** Line breaks, as any program counts them, and other control characters. */
const breaking = /[\p{Cc}\p{Zl}\p{Zp}]/gu

/** A line break in a name would end the comment, and the rest of the name would run as a statement. */
export const commentLine = (text: string): string =>
  `-- ${text.replace(breaking, character => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)}`
