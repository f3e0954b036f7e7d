// Mails are stored sealed, in the queue and in the catch-all. The seal is bound to the project and the mail id.
import type { MailKind } from '@plinth/contract/email.ts'
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import type { MailText } from './default-templates.ts'
import type { SealedMail } from './store.ts'

export interface MailContent extends MailText {
  to: string
  template: MailKind
}

const context = (projectId: string, id: string) => `project:${projectId}:mail:${id}`

export const sealMail = (
  projectId: string,
  id: string,
  content: MailContent,
  sealer: Sealer,
): SealedMail => ({
  id,
  project_id: projectId,
  content: sealer.seal(JSON.stringify(content), context(projectId, id)),
})

export const openMail = ({ id, project_id, content }: SealedMail, sealer: Sealer): MailContent =>
  JSON.parse(sealer.open(content, context(project_id, id)))
