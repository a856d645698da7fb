"""The options of `curl` and `wget`: those of this list run nothing, and what they read, write and reach is known.

Left out are files of further options (`--config`), libraries (`--engine`), helpers (`--use-askpass`, `--ntlm-wb`) and
variables, whose values may be files.
"""

from __future__ import annotations

from toolcrib.policy.shell.options import Options

CURL = Options(
    "aE:C:b:c:d:qD:fF:P:GgIH:h0ik46jlLMm:nNo:Z#x:U:pQ:r:e:JORX:SsY:y:23t:z:1T:Bu:A:vVw:",
    "anyauth append basic ca-native cert-status compressed compressed-ssh create-dirs crlf digest disable disable-eprt"
    " disable-epsv disallow-username-in-url doh-cert-status doh-insecure fail fail-early fail-with-body false-start"
    " form-escape ftp-create-dirs ftp-pasv ftp-pret ftp-skip-pasv-ip ftp-ssl-ccc ftp-ssl-control get globoff"
    " haproxy-protocol head help http0.9 http1.0 http1.1 http2 http2-prior-knowledge http3 http3-only"
    " ignore-content-length include insecure ipv4 ipv6 junk-session-cookies list-only location location-trusted"
    " mail-rcpt-allowfails manual negotiate netrc netrc-optional next alpn buffer clobber keepalive progress-meter"
    " sessionid ntlm parallel parallel-immediate path-as-is post301 post302 post303 progress-bar proxy-anyauth"
    " proxy-basic proxy-digest proxy-insecure proxy-negotiate proxy-ntlm proxy-tlsv1 proxytunnel raw"
    " remote-header-name remote-name remote-name-all remote-time remove-on-error retry-all-errors retry-connrefused"
    " sasl-ir show-error show-headers silent skip-existing socks5-basic socks5-gssapi socks5-gssapi-nec ssl"
    " ssl-allow-beast ssl-no-revoke ssl-reqd ssl-revoke-best-effort sslv2 sslv3 styled-output suppress-connect-headers"
    " tcp-fastopen tcp-nodelay tftp-no-options tlsv1 tlsv1.0 tlsv1.1 tlsv1.2 tlsv1.3 tr-encoding trace-ids trace-time"
    " use-ascii verbose version xattr",
    "abstract-unix-socket alt-svc aws-sigv4 cacert capath cert cert-type ciphers connect-timeout connect-to continue-at"
    " cookie cookie-jar create-file-mode crlfile curves data data-ascii data-binary data-raw data-urlencode delegation"
    " dns-interface dns-ipv4-addr dns-ipv6-addr dns-servers doh-url dump-header egd-file etag-compare etag-save"
    " expect100-timeout form form-string ftp-account ftp-alternative-to-user ftp-method ftp-port ftp-ssl-ccc-mode"
    " happy-eyeballs-timeout-ms header hostpubmd5 hostpubsha256 hsts interface json keepalive-time key key-type krb"
    " libcurl limit-rate local-port login-options mail-auth mail-from mail-rcpt max-filesize max-redirs max-time"
    " netrc-file noproxy oauth2-bearer output output-dir parallel-max pass pinnedpubkey preproxy proto proto-default"
    " proto-redir proxy proxy-cacert proxy-capath proxy-cert proxy-cert-type proxy-ciphers proxy-crlfile proxy-header"
    " proxy-key proxy-key-type proxy-pass proxy-pinnedpubkey proxy-service-name proxy-tls13-ciphers proxy-tlsauthtype"
    " proxy-tlspassword proxy-tlsuser proxy-user proxy1.0 pubkey quote random-file range rate referer request"
    " request-target resolve retry retry-delay retry-max-time sasl-authzid service-name socks4 socks4a socks5"
    " socks5-gssapi-service socks5-hostname speed-limit speed-time stderr telnet-option tftp-blksize time-cond tls-max"
    " tls13-ciphers tlsauthtype tlspassword tlsuser trace trace-ascii unix-socket upload-file url url-query user"
    " user-agent write-out",
)
WGET = Options(
    "Vhbo:a:dqvni:FB:t:O:cNST:w:Q:46xHP:EU:rl:kKmpA:R:D:LI:X:",
    "version help background debug quiet verbose force-html no-config retry-connrefused clobber netrc continue"
    " show-progress timestamping if-modified-since use-server-timestamps server-response spider random-wait proxy"
    " dns-cache ignore-case inet4-only inet6-only iri unlink xattr directories force-directories host-directories"
    " protocol-directories cache adjust-extension ignore-length save-headers http-keep-alive cookies"
    " keep-session-cookies content-disposition content-on-error auth-no-challenge https-only check-certificate hsts"
    " remove-listing glob passive-ftp preserve-permissions retr-symlinks ftps-implicit ftps-resume-ssl"
    " ftps-clear-data-connection ftps-fallback-to-ftp warc-cdx warc-compression warc-digests warc-keep-log recursive"
    " delete-after convert-links convert-file-only backup-converted mirror page-requisites strict-comments follow-ftp"
    " span-hosts relative trust-server-names parent",
    "output-file append-output report-speed input-file base rejected-log tries retry-on-http-error output-document"
    " start-pos progress timeout dns-timeout connect-timeout read-timeout wait waitretry quota bind-address limit-rate"
    " restrict-file-names prefer-family user password local-encoding remote-encoding directory-prefix cut-dirs"
    " http-user http-password default-page header compression proxy-user proxy-password referer user-agent"
    " load-cookies save-cookies post-data post-file method body-data body-file secure-protocol certificate"
    " certificate-type private-key private-key-type ca-certificate ca-directory crl-file pinnedpubkey ciphers ftp-user"
    " ftp-password warc-file warc-header warc-max-size warc-dedup warc-tempdir level backups accept reject"
    " accept-regex reject-regex regex-type domains exclude-domains follow-tags ignore-tags include-directories"
    " exclude-directories max-redirect hsts-file",
)


def valued(options: Options) -> str:
    """The options that take a value, as they are written."""
    short = (f"-{options.short[at - 1]}" for at, mark in enumerate(options.short) if mark == ":")
    return " ".join([*short, *(f"--{name}" for name in options.values.split())])
