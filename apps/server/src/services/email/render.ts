// Renders a mail template. Values are inserted in one pass and not parsed as template, HTML values are escaped, and the
// subject is always one line.
import type { MailText } from './default-templates.ts'

export const placeholders = [
  'user_name',
  'action_url',
  'project_name',
  'expires_in',
  'token',
  'email',
  'new_email',
] as const
export type Placeholder = (typeof placeholders)[number]
export type Values = Readonly<Partial<Record<Placeholder, string>>>

const isPlaceholder = (name: string): name is Placeholder =>
  (placeholders as readonly string[]).includes(name)

const placeholderSyntax = /\{\{\s*([#/]?)([a-z_]+)\s*\}\}/g
/** Users choose their name, and can enter any address. A long name would let them send text to strangers. */
const maxLength: Partial<Record<Placeholder, number>> = { user_name: 100, project_name: 100 }

export function render(template: MailText, values: Values): MailText {
  const plain = Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name, oneLine(value, maxLength[name as Placeholder])]),
  )
  return {
    subject: oneLine(fill(template.subject, plain, unescaped), 900),
    body_html: fill(template.body_html, plain, escapeHtml),
    body_text: fill(template.body_text, plain, unescaped),
  }
}

/** Bounds the size of the rendered mail, because each placeholder can become as long as its value. */
const maxPlaceholders = 200

/** Undefined for a valid template. */
export function templateError(template: string): string | undefined {
  const open: string[] = []
  let count = 0
  for (const { 1: kind, 2: name = '' } of template.matchAll(placeholderSyntax)) {
    if (!isPlaceholder(name)) continue
    if (++count > maxPlaceholders) return `A template holds at most ${maxPlaceholders} placeholders`
    if (kind === '#') open.push(name)
    else if (kind === '/' && open.pop() !== name) return `{{/${name}}} ends a part that does not begin there`
  }
  return open.length > 0 ? `The part that {{#${open.at(-1)}}} begins is not ended` : undefined
}

/** Line breaks and control characters become a space, because they could end a header or control a terminal. */
export const oneLine = (text: string, length = Number.POSITIVE_INFINITY): string =>
  [...text.replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ').trim()].slice(0, length).join('')

const unescaped = (value: string) => value
const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}
export const escapeHtml = (text: string): string =>
  text.replace(/[&<>"']/g, character => entities[character]!)

/** One pass, in time linear to the length of the template. */
function fill(template: string, values: Values, encode: (value: string) => string): string {
  let result = ''
  let end = 0
  /** The name of the section that is being left out. */
  let skipping: Placeholder | undefined
  for (const { 0: whole, 1: kind, 2: name = '', index } of template.matchAll(placeholderSyntax)) {
    if (!isPlaceholder(name)) continue
    if (skipping === undefined) result += template.slice(end, index)
    end = index + whole.length
    if (kind !== '' && isAlone(template, index, end)) end++
    if (skipping === undefined && kind === '') result += encode(values[name] ?? '')
    else if (skipping === undefined && kind === '#' && !values[name]) skipping = name
    else if (skipping === name && kind === '/') skipping = undefined
  }
  return skipping === undefined ? result + template.slice(end) : result
}

/** A line with only the start or end of a section leaves no empty line. */
const isAlone = (template: string, start: number, end: number) =>
  template[end] === '\n' && (start === 0 || template[start - 1] === '\n')
