import assert from 'node:assert/strict'
import { test } from 'node:test'
import { templateTypes } from '@plinth/contract/email.ts'
import { defaultTemplates } from './default-templates.ts'
import { placeholders, render, templateError } from './render.ts'

const all = Object.fromEntries(placeholders.map(name => [name, `value of ${name}`]))
const body = (text: string, values = {}) => render({ subject: 's', body_html: text, body_text: text }, values)

test('mail template: every placeholder in subject and bodies is replaced', () => {
  const marks = placeholders.map(name => `{{${name}}}/{{ ${name} }}`).join('|')
  const wanted = placeholders.map(name => `value of ${name}/value of ${name}`).join('|')
  assert.deepEqual(render({ subject: marks, body_html: marks, body_text: marks }, all), {
    subject: wanted,
    body_html: wanted,
    body_text: wanted,
  })
})

test('mail template: an unknown placeholder stays unchanged, a known one without a value is empty', () => {
  const text = '{{nothing}} {{User_Name}} {{#nothing}}x{{/nothing}} { {token} } [{{token}}]'
  assert.equal(body(text).body_text, '{{nothing}} {{User_Name}} {{#nothing}}x{{/nothing}} { {token} } []')
})

test('mail template: values are escaped in HTML and unchanged in text', () => {
  const values = { user_name: `<img src=x onerror="alert('1')">&amp;` }
  const { body_html, body_text } = body('{{user_name}}', values)
  assert.equal(body_html, '&lt;img src=x onerror=&quot;alert(&#39;1&#39;)&quot;&gt;&amp;amp;')
  assert.equal(body_text, values.user_name)
})

test('mail template: a value is not parsed as a template, and $ is not special in it', () => {
  const values = { user_name: '{{token}} $& $1 {{#token}}', token: '123456' }
  assert.equal(body('{{user_name}}', values).body_text, values.user_name)
})

test('mail template: line breaks and control characters never reach the subject', () => {
  for (const bad of ['\r\n', '\n', '\r', '\u0000', '\u2028', '\u0085', '\t', '\u001b']) {
    const { subject } = render(
      { subject: `a${bad}{{user_name}}`, body_html: '', body_text: '' },
      { user_name: `Eve${bad}Bcc: x@example.test` },
    )
    assert.equal(subject, 'a Eve Bcc: x@example.test')
  }
})

test('mail template: a name is one line of at most 100 characters', () => {
  const { body_text } = body('{{user_name}}', { user_name: `Eve\r\n\r\n${'buy '.repeat(100)}` })
  assert.equal(body_text.length, 100)
  assert.ok(body_text.startsWith('Eve buy buy'))
})

test('mail template: a section without its value is left out and leaves no empty line', () => {
  const text = 'a\n{{#token}}\nyour code: {{token}}{{#email}} for {{email}}{{/email}}\n{{/token}}\nb'
  assert.equal(body(text).body_text, 'a\nb')
  assert.equal(body(text, { email: 'x' }).body_text, 'a\nb')
  assert.equal(body(text, { token: '1' }).body_text, 'a\nyour code: 1\nb')
  assert.equal(body(text, { token: '1', email: 'x' }).body_text, 'a\nyour code: 1 for x\nb')
})

test('mail template: unclosed and crossed sections and too many placeholders are errors', () => {
  assert.equal(templateError('{{#token}}{{token}}{{/token}} {{/nothing}} {{#nothing}}'), undefined)
  assert.match(templateError('{{#token}}')!, /not ended/)
  assert.match(templateError('{{/token}}')!, /does not begin/)
  assert.match(templateError('{{#token}}{{#email}}{{/token}}{{/email}}')!, /does not begin/)
  assert.equal(templateError('{{token}}'.repeat(200)), undefined)
  assert.match(templateError('{{token}}'.repeat(201))!, /at most 200/)
})

test('mail template: the built-in templates render with all values and with none', () => {
  for (const type of templateTypes) {
    const template = defaultTemplates[type]
    for (const part of Object.values(template)) assert.equal(templateError(part), undefined)
    for (const values of [all, {}])
      for (const part of Object.values(render(template, values))) assert.doesNotMatch(part, /\{\{|\}\}/, type)
    const { subject, body_html, body_text } = render(template, all)
    for (const part of [subject, body_html, body_text]) assert.ok(part.includes('value of project_name'))
    for (const part of [body_html, body_text]) {
      assert.ok(part.includes('value of action_url') && part.includes('value of user_name'), type)
      const hasCode = ['magic_link', 'verify_email', 'reset_password'].includes(type)
      assert.equal(part.includes('value of token'), hasCode, type)
    }
    assert.match(render(template, {}).body_text, /^Hello,\n/)
  }
})
