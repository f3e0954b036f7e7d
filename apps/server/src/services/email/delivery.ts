// Chooses the SMTP server and the connector for a project. A project's own server must have a public address and a mail
// port; the server of the deployment can be anywhere.
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import { type Connector, operatorConnector } from '#src/kernel/outbound/connect.ts'
import { type OutgoingMail, sendMail } from '#src/kernel/outbound/smtp.ts'
import type { SmtpFailure } from '#src/kernel/outbound/smtp-failure.ts'
import { isMailPort, type SmtpServer } from '#src/kernel/outbound/smtp-server.ts'
import type { Settings } from '#src/tenancy/settings-store.ts'
import { openedSmtp, storedSmtp } from './smtp-settings.ts'

export interface Route {
  /** The project's own server. */
  isOwn: boolean
  /** Undefined when the server has accepted the message. */
  send(mail: OutgoingMail, stop?: AbortSignal): Promise<SmtpFailure | undefined>
}

export interface Delivery {
  /** The server of SMTP_*. */
  readonly deployment: SmtpServer | undefined
  /** Undefined without a configured server. Throws when the stored password cannot be decrypted. */
  route(projectId: string, settings: Settings): Route | undefined
}

interface DeliveryDeps {
  sealer: Sealer
  deployment: SmtpServer | undefined
  /** For servers that projects configure. */
  connector: Connector
}

export function createDelivery({ sealer, deployment, connector }: DeliveryDeps): Delivery {
  const operator = operatorConnector()
  return {
    deployment,
    route(projectId, settings) {
      const own = storedSmtp(settings)
      if (!own)
        return deployment && { isOwn: false, send: (...mail) => sendMail(operator, deployment, ...mail) }
      const server = openedSmtp(own, projectId, sealer)
      if (!isMailPort(server.port))
        return { isOwn: true, send: async () => unreachable(`port ${server.port} is not a mail port`) }
      return { isOwn: true, send: (...mail) => sendMail(connector, server, ...mail) }
    },
  }
}

const unreachable = (reason: string): SmtpFailure => ({ kind: 'unreachable', reason, isFinal: false })
