import type { Static } from 'typebox'
import type { Routes } from './route.ts'
import { Empty, Id, Nullable, page, pageQuery, Timestamp } from './shapes.ts'
import { Type } from './type.ts'

export const templateTypes = ['magic_link', 'verify_email', 'reset_password', 'invite', 'welcome'] as const
export const TemplateType = Type.Enum(templateTypes)
export type TemplateType = (typeof templateTypes)[number]

/** Notices of the platform have no template. */
const mailKinds = [...templateTypes, 'notice'] as const
export type MailKind = (typeof mailKinds)[number]

export const encryptions = ['none', 'starttls', 'tls'] as const
export const Encryption = Type.Enum(encryptions)
export type Encryption = (typeof encryptions)[number]

/** One plain address, without characters that could start another header, recipient or comment. */
export const addressPattern =
  '^[^\\s\\u0000-\\u0020\\u007f-\\u00a0\\u2028\\u2029<>()\\[\\],;:\\\\"@]{1,64}@[^\\s\\u0000-\\u0020\\u007f-\\u00a0\\u2028\\u2029<>()\\[\\],;:\\\\"@]{1,255}$'
export const hostPattern = '^[A-Za-z0-9._:-]{1,253}$'
const linePattern = '^[^\\u0000-\\u001f\\u007f-\\u009f\\u2028\\u2029]*$'

const Address = Type.String({ maxLength: 320, pattern: addressPattern, description: 'one e-mail address' })
const line = (maxLength: number) =>
  Type.String({ maxLength, pattern: linePattern, description: 'a single line of text' })

export const SmtpInput = Type.Object(
  {
    host: Type.String({ pattern: hostPattern, description: 'a host name or an address' }),
    port: Type.Optional(Type.Integer({ minimum: 1, maximum: 65_535 })),
    username: Type.Optional(Nullable(line(320))),
    password: Type.Optional(
      Nullable(
        Type.String({
          maxLength: 1024,
          description: 'If omitted, the stored password is kept. Null or an empty text removes it.',
        }),
      ),
    ),
    from_email: Type.Optional(Address),
    from_name: Type.Optional(Nullable(line(100))),
    encryption: Type.Optional(Encryption),
  },
  { additionalProperties: false },
)
export type SmtpInput = Static<typeof SmtpInput>

/** Never contains the password. Of the platform's SMTP server only the sender is shown. */
export const Smtp = Type.Object({
  host: Nullable(Type.String()),
  port: Nullable(Type.Integer()),
  username: Nullable(Type.String()),
  from_email: Nullable(Type.String()),
  from_name: Nullable(Type.String()),
  encryption: Nullable(Encryption),
  configured: Type.Boolean({ description: 'If false, mail is captured locally and not sent.' }),
  source: Type.Enum(['project', 'deployment', 'none'] as const),
})
export type Smtp = Static<typeof Smtp>

const Body = Type.String({
  maxLength: 100_000,
  pattern: '^[^\\u0000]*$',
  description: 'a text without NUL characters',
})
const content = { subject: line(300), body_html: Body, body_text: Body }

export const TemplateInput = Type.Object(
  {
    subject: Type.String({ ...content.subject, minLength: 1 }),
    body_html: content.body_html,
    body_text: Type.Optional(content.body_text),
  },
  { additionalProperties: false },
)
export type TemplateInput = Static<typeof TemplateInput>

export const Template = Type.Object({
  template_type: TemplateType,
  ...content,
  is_custom: Type.Boolean(),
  updated_at: Nullable(Timestamp),
})
export type Template = Static<typeof Template>

const message = {
  id: Id,
  to: Type.String(),
  template: Type.Enum(mailKinds),
  subject: Type.String(),
  created_at: Timestamp,
}
/** Locally captured mail. */
export const CaughtSummary = Type.Object(message)
export type CaughtSummary = Static<typeof CaughtSummary>
export const CaughtMessage = Type.Object({
  ...message,
  body_html: Type.String(),
  body_text: Type.String(),
})
export type CaughtMessage = Static<typeof CaughtMessage>

const byId = Type.Object({ id: Id })
const byType = Type.Object({ id: Id, type: TemplateType })

export const emailApi = {
  listDefaults: {
    plane: 'management',
    method: 'GET',
    path: '/projects/email/templates/defaults',
    scope: 'read',
    showsOwn: true,
    summary: 'List the built-in mail templates',
    query: Type.Object(pageQuery),
    reply: page('templates', Template),
  },
  readSmtp: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/email/smtp',
    scope: 'read',
    summary: 'Read the SMTP settings of a project, without the password',
    params: byId,
    reply: Smtp,
  },
  saveSmtp: {
    plane: 'management',
    method: 'PUT',
    path: '/projects/{id}/email/smtp',
    scope: 'admin',
    audit: 'email.smtp_saved',
    summary: 'Set the SMTP server of a project; if the password is omitted, the stored one is kept',
    params: byId,
    body: SmtpInput,
    reply: Smtp,
  },
  sendTest: {
    plane: 'management',
    method: 'POST',
    path: '/projects/{id}/email/test',
    scope: 'admin',
    audit: 'email.test_sent',
    summary: 'Send a test mail now and return the result',
    params: byId,
    body: Type.Object(
      { to: Address, template: Type.Optional(TemplateType) },
      { additionalProperties: false },
    ),
    reply: Type.Object({ success: Type.Boolean(), message: Type.String() }),
  },
  listTemplates: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/email/templates',
    scope: 'read',
    summary: 'List the custom templates of a project',
    params: byId,
    query: Type.Object(pageQuery),
    reply: page('templates', Template),
  },
  readTemplate: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/email/templates/{type}',
    scope: 'read',
    summary: 'Read the effective template: the custom one of the project, or the built-in one',
    params: byType,
    reply: Template,
  },
  saveTemplate: {
    plane: 'management',
    method: 'PUT',
    path: '/projects/{id}/email/templates/{type}',
    scope: 'admin',
    audit: 'email.template_saved',
    summary: 'Replace a template',
    params: byType,
    body: TemplateInput,
    reply: Template,
  },
  revertTemplate: {
    plane: 'management',
    method: 'DELETE',
    path: '/projects/{id}/email/templates/{type}',
    scope: 'admin',
    audit: 'email.template_reverted',
    summary: 'Remove a custom template, so that the built-in one applies again',
    params: byType,
    reply: Empty,
    status: 204,
  },
  listCaught: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/email/outbox',
    scope: 'admin',
    summary: 'List locally captured mail, newest first; the last 200 messages of a project are kept',
    params: byId,
    query: Type.Object(pageQuery),
    reply: page('messages', CaughtSummary),
  },
  readCaught: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/email/outbox/{message_id}',
    scope: 'admin',
    audit: 'email.message_read',
    summary: 'Read one locally captured message, with its links and codes',
    params: Type.Object({ id: Id, message_id: Id }),
    reply: CaughtMessage,
  },
} as const satisfies Routes
