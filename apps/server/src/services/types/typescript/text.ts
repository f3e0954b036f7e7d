// The little that writing a type in TypeScript takes.

export const quote = (text: string): string => JSON.stringify(text)
export const list = (names: readonly string[]): string => `[${names.map(quote).join(', ')}]`
export const key = (name: string): string => (/^[A-Za-z_$][\w$]*$/.test(name) ? name : quote(name))
export const indent = (text: string): string => text.replace(/^(?=.)/gm, '  ')
export const block = (lines: readonly string[]): string =>
  lines.length === 0 ? '{}' : `{\n${lines.map(indent).join('\n')}\n}`
export const byText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

/** A group of named types; an empty one is written so that nothing is in it. */
export const members = (entries: readonly (readonly [string, string])[]): string =>
  entries.length === 0
    ? '{\n  [_ in never]: never\n}'
    : block(entries.map(([name, type]) => `${key(name)}: ${type}`))
