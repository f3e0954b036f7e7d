// Which server the mail of a project goes to, and by which connection: a project's own server is reached only at
// public addresses and mail ports, the one of the deployment wherever the operator has put it.
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import { type Connector, operatorConnector } from '#src/kernel/outbound/connect.ts'
import { type OutgoingMail, sendMail } from '#src/kernel/outbound/smtp.ts'
import type { SmtpFailure } from '#src/kernel/outbound/smtp-failure.ts'
import { isMailPort, type SmtpServer } from '#src/kernel/outbound/smtp-server.ts'
import type { Settings } from '#src/tenancy/settings-store.ts'
import { openedSmtp, storedSmtp } from './smtp-settings.ts'

export interface Route {
  /** Set by the project. */
  isOwn: boolean
  /** Undefined when the server has taken the message. */
  send(mail: OutgoingMail, stop?: AbortSignal): Promise<SmtpFailure | undefined>
}

export interface Delivery {
  /** The server of SMTP_*. */
  readonly deployment: SmtpServer | undefined
  /** Undefined without any server. Throws when the stored password cannot be opened. */
  route(projectId: string, settings: Settings): Route | undefined
}

interface DeliveryDeps {
  sealer: Sealer
  deployment: SmtpServer | undefined
  /** For servers that projects name. */
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
        return { isOwn: true, send: async () => notReached(`port ${server.port} is not a mail port`) }
      return { isOwn: true, send: (...mail) => sendMail(connector, server, ...mail) }
    },
  }
}

const notReached = (reason: string): SmtpFailure => ({ kind: 'unreachable', reason, isFinal: false })
