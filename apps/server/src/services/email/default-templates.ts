// The built-in templates. A section {{#name}}…{{/name}} is rendered only if the mail has that value, because a sign-in
// mail can have a link, a code, or both.
import type { TemplateType } from '@plinth/contract/email.ts'

export interface MailText {
  subject: string
  body_html: string
  body_text: string
}

interface TemplateText {
  subject: string
  intro: string
  /** Label of the button. */
  action: string
  /** Shows the code, if the mail has one. */
  hasCode?: true
  closing: string
}

const greeting = 'Hello{{#user_name}} {{user_name}}{{/user_name}},'
const lifetime = '{{#expires_in}}This is valid for {{expires_in}} and works once. {{/expires_in}}'

const textBody = ({ intro, hasCode, closing }: TemplateText) =>
  [
    greeting,
    '',
    intro,
    '',
    '{{#action_url}}',
    '{{action_url}}',
    '',
    '{{/action_url}}',
    ...(hasCode ? ['{{#token}}', 'Your code: {{token}}', '', '{{/token}}'] : []),
    closing,
    '',
  ].join('\n')

const paragraph = (text: string, style = 'font-size:16px;line-height:24px') =>
  `<p style="margin:0 0 16px;${style}">${text}</p>`
const small = 'font-size:13px;line-height:20px;color:#52525b'
const button =
  'display:inline-block;padding:12px 20px;border-radius:6px;background:#18181b;color:#ffffff;text-decoration:none'

/** Uses tables and inline styles, because mail clients ignore most other CSS. */
const htmlBody = ({ subject, intro, action, hasCode, closing }: TemplateText) =>
  [
    '<!doctype html>',
    '<html lang="en">',
    `<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${subject}</title></head>`,
    '<body style="margin:0;padding:24px;background:#f4f4f5;font-family:Arial,Helvetica,sans-serif;color:#18181b">',
    '<table role="presentation" width="100%" cellpadding="0" cellspacing="0"><tr><td align="center">',
    '<table role="presentation" width="480" cellpadding="0" cellspacing="0" style="max-width:100%;background:#ffffff;border-radius:8px"><tr><td style="padding:32px">',
    `<h1 style="margin:0 0 16px;font-size:22px;line-height:28px">${subject}</h1>`,
    paragraph(greeting),
    paragraph(intro),
    '{{#action_url}}',
    paragraph(`<a href="{{action_url}}" style="${button}">${action}</a>`),
    paragraph('Or open this address: <a href="{{action_url}}">{{action_url}}</a>', small),
    '{{/action_url}}',
    ...(hasCode
      ? [
          '{{#token}}',
          paragraph('Your code: <strong style="font-size:24px;letter-spacing:4px">{{token}}</strong>'),
          '{{/token}}',
        ]
      : []),
    paragraph(closing, small),
    '</td></tr></table>',
    '</td></tr></table>',
    '</body>',
    '</html>',
    '',
  ].join('\n')

const mail = (text: TemplateText): MailText => ({
  subject: text.subject,
  body_html: htmlBody(text),
  body_text: textBody(text),
})

export const defaultTemplates: Readonly<Record<TemplateType, MailText>> = {
  magic_link: mail({
    subject: 'Sign in to {{project_name}}',
    intro: 'somebody, hopefully you, asked to sign in to {{project_name}} with this e-mail address.',
    action: 'Sign in',
    hasCode: true,
    closing: `${lifetime}If it was not you, ignore this mail: nobody gets in without it.`,
  }),
  verify_email: mail({
    subject: 'Confirm your e-mail address for {{project_name}}',
    intro:
      'please confirm your e-mail address for {{project_name}}{{#new_email}}: it is to become {{new_email}}{{/new_email}}.',
    action: 'Confirm e-mail address',
    hasCode: true,
    closing: `${lifetime}If it was not you who gave this address, ignore this mail.`,
  }),
  reset_password: mail({
    subject: 'Reset your password for {{project_name}}',
    intro: 'somebody, hopefully you, asked for a new password at {{project_name}}.',
    action: 'Choose a new password',
    hasCode: true,
    closing: `${lifetime}If it was not you, ignore this mail: your password stays as it is.`,
  }),
  invite: mail({
    subject: 'You are invited to {{project_name}}',
    intro: 'you have been invited to join {{project_name}}.',
    action: 'Accept the invitation',
    closing: `${lifetime}If you did not expect this, ignore this mail.`,
  }),
  welcome: mail({
    subject: 'Welcome to {{project_name}}',
    intro: 'welcome to {{project_name}}. Your account is ready.',
    action: 'Open {{project_name}}',
    closing: 'If it was not you who signed up, tell whoever runs {{project_name}}.',
  }),
}
