// From a template and values to a mail. Values are put in once and never read as template again; in HTML they are
// escaped, and a subject is one line whatever they hold.
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

const mark = /\{\{\s*([#/]?)([a-z_]+)\s*\}\}/g
/** A name is somebody's own words, sent to an address they may have made up: not a place for letters. */
const longest: Partial<Record<Placeholder, number>> = { user_name: 100, project_name: 100 }

export function render(template: MailText, values: Values): MailText {
  const plain = Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name, oneLine(value, longest[name as Placeholder])]),
  )
  return {
    subject: oneLine(fill(template.subject, plain, asItIs), 900),
    body_html: fill(template.body_html, plain, escapeHtml),
    body_text: fill(template.body_text, plain, asItIs),
  }
}

/** Each mark may become as long as its value. */
const marksAtMost = 200

/** What keeps a template from being used; undefined when nothing does. */
export function complaintAbout(template: string): string | undefined {
  const open: string[] = []
  let marks = 0
  for (const { 1: kind, 2: name = '' } of template.matchAll(mark)) {
    if (!isPlaceholder(name)) continue
    if (++marks > marksAtMost) return `A template holds at most ${marksAtMost} placeholders`
    if (kind === '#') open.push(name)
    else if (kind === '/' && open.pop() !== name) return `{{/${name}}} ends a part that does not begin there`
  }
  return open.length > 0 ? `The part that {{#${open.at(-1)}}} begins is not ended` : undefined
}

/** Line ends, and whatever else could end a header or steer a terminal, become a space. */
export const oneLine = (text: string, length = Number.POSITIVE_INFINITY): string =>
  [...text.replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ').trim()].slice(0, length).join('')

const asItIs = (value: string) => value
const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}
export const escapeHtml = (text: string): string =>
  text.replace(/[&<>"']/g, character => entities[character]!)

/** One pass from left to right: its time grows with the length of the template and with nothing else. */
function fill(template: string, values: Values, encode: (value: string) => string): string {
  let result = ''
  let end = 0
  /** The part left out at the moment, by the name it depends on. */
  let skipping: Placeholder | undefined
  for (const { 0: whole, 1: kind, 2: name = '', index } of template.matchAll(mark)) {
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

/** A line that holds nothing but the begin or end of a part leaves no empty line behind. */
const isAlone = (template: string, start: number, end: number) =>
  template[end] === '\n' && (start === 0 || template[start - 1] === '\n')
