// Quoting of names and strings in TypeScript.

export const quote = (text: string): string => JSON.stringify(text)
export const list = (names: readonly string[]): string => `[${names.map(quote).join(', ')}]`
export const key = (name: string): string => (/^[A-Za-z_$][\w$]*$/.test(name) ? name : quote(name))
export const indent = (text: string, levels = 1): string => text.replace(/^(?=.)/gm, '  '.repeat(levels))
export const block = (lines: readonly string[]): string =>
  lines.length === 0 ? '{}' : `{\n${lines.map(line => indent(line)).join('\n')}\n}`
export const byText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)
